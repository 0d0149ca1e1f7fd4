for epoch in range(3):
    print(f"epoch {epoch} loss {1 / (epoch + 1):.3f}")
