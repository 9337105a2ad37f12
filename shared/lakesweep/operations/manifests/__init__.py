"""Operations that commit new manifests of the same files."""
