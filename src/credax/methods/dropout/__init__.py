"""Networks made random by what training adds to them: dropout masks, batch statistics."""
