"""The storm: real processes are killed, stopped, flushed and lied to, and the result must be that of a calm run."""
