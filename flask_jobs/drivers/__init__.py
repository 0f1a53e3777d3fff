"""The drivers that come with the library."""
