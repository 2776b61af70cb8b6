"""What plugins said, kept between attempts."""
