"""Reports of an audit: functions of an `Audit`, one file a format."""
