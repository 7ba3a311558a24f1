"""The museum: bodies of actions with faults that public trackers reported. Every one of them must be refuted."""
