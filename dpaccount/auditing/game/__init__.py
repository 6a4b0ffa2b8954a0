"""The game: a mechanism is run many times with and without a record, and an attack tells the runs apart."""
