"""Planning a training job: step time, memory and cost of parallel strategies on a described cluster."""
