"""Operator times in the formats that matrix units multiply in, by layout, compiled or not."""
