"""What will a text classifier rely on? Answered from the counts of a labelled corpus."""
