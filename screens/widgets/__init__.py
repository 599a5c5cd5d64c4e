"""Parts that several screens show; attributes go down into them, messages come up."""
