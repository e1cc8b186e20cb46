"""Views of pages: events in, exact totals, series, unique clients and top pages out."""
