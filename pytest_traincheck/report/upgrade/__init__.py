"""Reports of library upgrades: golden and candidate code with old and new libraries."""
