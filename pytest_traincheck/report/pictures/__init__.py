"""Pictures of results as inline SVG: pure functions from values to markup, without a script or a load from outside."""
