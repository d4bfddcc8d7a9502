export type Handler = (params: Record<string, string>) => string;

interface Route {
  pattern: string[];
  handler: Handler;
}

export class Router {
  private routes: Route[] = [];

  on(path: string, handler: Handler): void {
    this.routes.push({ pattern: path.split("/"), handler });
  }

  find(path: string): Route | undefined {
    const parts = path.split("/");
    return this.routes.find((route) => route.pattern.length === par‸);
  }
}
