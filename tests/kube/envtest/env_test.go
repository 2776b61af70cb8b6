package cr

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestEnv(t *testing.T) {
	start := time.Now()
	env := &envtest.Environment{}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(start))
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10)
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		if r.Name == "a" {
			seen <- r.Name
		}
		return reconcile.Result{}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	go mgr.Start(ctx)
	if err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-seen:
	case <-ctx.Done():
		t.Fatal("not reconciled")
	}
	user, err := env.AddUser(envtest.User{Name: "jane", Groups: []string{"x"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	jc, err := client.New(user.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	err = jc.List(ctx, &pods)
	t.Logf("jane: %v", err)
	if err == nil {
		t.Fatal("jane may list pods")
	}
	stop := time.Now()
	if err := env.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %v", time.Since(stop))
}
