"""Operator times in the number formats of matrix units, by layout, compiled or not."""
