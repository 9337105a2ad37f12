"""Rules about partitions: which ones a person names, and which ones expire. Values only; nothing reads or writes."""
