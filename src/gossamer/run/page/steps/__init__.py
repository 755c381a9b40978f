"""The steps of the page. Each calls the functions that the command of the same purpose calls, and decides nothing itself."""
