"""Side inputs: their views by window, and the elements that wait for them."""
