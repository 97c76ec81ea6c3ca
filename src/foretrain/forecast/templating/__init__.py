"""Will this architecture learn these templates, and from how many samples?"""
