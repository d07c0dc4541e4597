"""Several processes of one training job: their clocks aligned, who waits for whom, and the job run as a whole."""
