"""The parts of the job type `http`: what is sent, one exchange with a server, what came back."""
