"""What if the embeddings of a model were not trained?"""
