"""Background jobs for Flask."""
