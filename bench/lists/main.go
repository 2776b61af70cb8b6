// Lists all pods as client-go does in one form and prints what that took as a line of JSON.
//
// CPU is this process's own, collections of garbage among it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var forms = map[string]string{
	"json":     "application/json",
	"protobuf": "application/vnd.kubernetes.protobuf",
}

type answer struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
	Pods    int     `json:"pods"`
}

func cpu() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

func client(kubeconfig, form string) *rest.RESTClient {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		panic(err)
	}
	config.APIPath = "/api"
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = form, form
	config.QPS = -1
	made, err := rest.RESTClientFor(config)
	if err != nil {
		panic(err)
	}
	return made
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the server")
	form := flag.String("form", "json", "json or protobuf")
	flag.Parse()
	asked := client(*kubeconfig, forms[*form])
	began, used := time.Now(), cpu()
	var found corev1.PodList
	err := asked.Get().Resource("pods").
		VersionedParams(&metav1.ListOptions{}, scheme.ParameterCodec).
		Do(context.Background()).Into(&found)
	if err != nil {
		panic(err)
	}
	told := answer{time.Since(began).Seconds(), cpu() - used, len(found.Items)}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		panic(err)
	}
}
