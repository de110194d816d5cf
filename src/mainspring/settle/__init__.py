"""From outcomes to transitions."""
