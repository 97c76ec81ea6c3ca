"""How early the monitor's alarms warn of a training that goes wrong, compared with watching loss or gradient."""
