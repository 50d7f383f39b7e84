"""The product's operations: compare two sides, check configured pipelines, refresh their goldens."""
