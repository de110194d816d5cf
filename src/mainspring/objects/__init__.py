"""Results, logs and checkpoints outside the database. Empty until large results are built."""
