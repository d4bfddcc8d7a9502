"""What a prompt holds beside the text around the cursor: pieces of three zones, chosen under a budget, in an order that
stays."""
