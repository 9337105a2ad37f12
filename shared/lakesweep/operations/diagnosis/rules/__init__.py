"""What the facts about a bucket, passes and clocks mean."""
