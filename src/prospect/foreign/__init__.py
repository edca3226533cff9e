"""Other tools' profiles: bytes → the tables of a profile. Opens no file."""
