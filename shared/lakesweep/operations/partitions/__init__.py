"""Operations that commit: drop partitions, truncate a table, expire partitions."""
