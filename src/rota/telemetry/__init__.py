"""What rota tells about itself: events, and the lines people read."""
