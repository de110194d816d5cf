"""Objects: what jobs write that is too large or too much for rows, in a folder or at S3. Knows no store and no worker."""
