"""What helps to test an app with jobs, and to prove a driver."""
