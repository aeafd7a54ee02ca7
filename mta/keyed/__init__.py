"""The windows of many keys as one stored form: short ones in columns, long ones as windows of their own."""
