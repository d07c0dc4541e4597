"""Predictions and the measurements that followed, stored from one verification to the next."""
