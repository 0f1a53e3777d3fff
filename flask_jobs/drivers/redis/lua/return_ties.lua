return ties
