"""Values and texts that documents hold: rows, types, dates, URIs, JSON."""
