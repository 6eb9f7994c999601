import { Component, type ReactNode } from "react";
import { ErrorState } from "./states";

/** Keeps a fault of one page from taking the whole dashboard with it. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };
  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  override render() {
    if (!this.state.error) return this.props.children;
    return <ErrorState error={this.state.error} retry={() => this.setState({ error: null })} />;
  }
}
