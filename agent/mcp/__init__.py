"""Model Context Protocol: the memory as a server, and the tools of other servers for an agent."""
