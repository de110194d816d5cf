"""From ready to assigned: order and fairness (`ready`), job x worker (`matcher`), and the step that joins them (`dispatcher`)."""
