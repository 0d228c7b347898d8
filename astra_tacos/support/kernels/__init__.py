"""What compiled loops share: how they are compiled and kept, the types of their arrays, and small parts that many need."""
