"""What helps to test an application's jobs, and a driver of your own."""
