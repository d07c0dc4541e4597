"""Time, memory and utilisation of one iteration over the values of a setting: steps, knees, and their causes."""
