"""Operations that delete rows: find them, and commit deletion vectors."""
