"""What the pytest plugin does once it is asked for: settings, collectors and items, the session, the fixture."""
