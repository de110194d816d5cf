"""Which Mainspring this is; a test compares it with the package's own metadata."""

VERSION = "0.1.0"
