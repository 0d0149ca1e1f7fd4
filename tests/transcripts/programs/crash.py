import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(8, 2))
print(f"output {model(torch.ones(4, 8)).sum().item():.3f}")
