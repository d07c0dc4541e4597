"""Running a graph on its lanes: when each task starts and ends, and what the iteration waits for."""
