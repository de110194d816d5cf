"""Short programs that show how Mainspring is used. Run them from the folder above this one."""
