"""What an operator connects, watches and repairs: servers, health, doctor, backup."""
