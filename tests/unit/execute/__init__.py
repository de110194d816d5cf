"""Tests of the execute stage: a real worker on a link that lives in memory."""
